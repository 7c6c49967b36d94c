"""From stored samples to what people read: one file a format."""
