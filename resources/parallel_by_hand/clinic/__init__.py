"""Six sick programs, and the tools that look into them."""
