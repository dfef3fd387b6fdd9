"""Feature maps in another order of axes, and convolutions as other products."""
