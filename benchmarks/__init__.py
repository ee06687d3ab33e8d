"""Side-by-side measurements, each runnable by one command."""
