"""Every number as a picture: a trace becomes data in one place, and is drawn from there."""
