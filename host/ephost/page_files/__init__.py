"""What every page has: its look, and how it behaves."""
