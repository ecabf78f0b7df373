"""What a worked solution is made of, and every way to write it down."""
