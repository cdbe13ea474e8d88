"""The record: tables, ledger, facts, events; SQLite and PostgreSQL."""
