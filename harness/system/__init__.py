"""The machine and its processes: cores, workers, files, git."""
