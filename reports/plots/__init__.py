"""The plots of a report: one file each, drawn for a light and for a dark page."""
