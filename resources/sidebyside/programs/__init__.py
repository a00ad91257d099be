"""What a program needs that a person starts: arguments, Ctrl-C, processes that end."""
