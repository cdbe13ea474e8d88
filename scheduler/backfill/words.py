"""Moments and numbers of domains as a reader would say them."""

DAY_S = 86_400
HOUR_S = 3_600


def moment(at_s: float, now_s: float) -> str:
    """A time of day in UTC, with the days until then when it is not today: '10:05 UTC'."""
    minutes = int(at_s % DAY_S) // 60
    said = f"{minutes // 60:02d}:{minutes % 60:02d} UTC"
    days = int(at_s // DAY_S) - int(now_s // DAY_S)
    if days == 0:
        return said
    return f"{said} tomorrow" if days == 1 else f"{said} in {days} days"


def domains(count: int, level: str) -> str:
    """'1 leaf', '3 leaf domains': a level's name is data, so its plural is not known."""
    return f"1 {level}" if count == 1 else f"{count} {level} domains"
