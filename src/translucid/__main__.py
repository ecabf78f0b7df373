"""`python -m translucid` is `translucid`."""

from translucid.cli import program

if __name__ == "__main__":
    program()
