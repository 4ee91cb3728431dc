"""Timing sparse products and gated decoding: cold weights, against the dense call turn by turn, under a roofline.

A product reads its weights once, so memory limits it at small batches. The roofline of a point is the time in which the
bytes that it must read arrive at the bandwidth measured when the sweep began.
"""
