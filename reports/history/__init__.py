"""What ``stepbench history`` prints, exports and draws."""
