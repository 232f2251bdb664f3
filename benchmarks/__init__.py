"""What kreach costs, measured beside the plain way of doing the same. Run `python -m benchmarks`.

Machines are noisy, so methods that are compared take turns in one run on the same inputs, each is
given the best of its repeats, and ratios are printed beside the times. Nothing is asserted about
time; that compared methods agree is.
"""
