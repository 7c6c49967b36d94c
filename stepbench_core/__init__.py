"""What everything may import: the errors that end a command, and the one reader for inputs."""
