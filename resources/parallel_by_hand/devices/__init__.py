"""Devices, their queues, and the roofline."""
