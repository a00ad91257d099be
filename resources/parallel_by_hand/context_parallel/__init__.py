"""A text split over ranks: rings of keys, gathers, exchanged heads, slices."""
