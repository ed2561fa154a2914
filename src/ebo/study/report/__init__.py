"""A study as one page of HTML."""
