"""Networks that are cut: by layers, channels, space and time."""
