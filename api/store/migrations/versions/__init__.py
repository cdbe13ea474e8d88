"""One file for each step, `YYYY_MM_DD_HHMM_what_it_does.py`; 15 characters are its revision."""
