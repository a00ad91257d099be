"""Spans in lanes, as a picture, as text and as a trace; figures of one look."""
