"""Tables and paragraphs, and the formats that they are written in."""
