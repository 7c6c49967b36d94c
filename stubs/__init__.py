"""Stand-ins for the native side of the measured path: request, batch and KV cache managers.

They carry no measuring code. Those in Python are the provider ``python``; ``providers.py`` has the
others.
"""
