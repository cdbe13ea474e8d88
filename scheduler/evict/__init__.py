"""How gangs leave: what people and clocks ask for, step by step."""
