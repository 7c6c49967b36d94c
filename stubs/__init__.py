"""Stand-ins for the native side of the measured path: request, batch and KV cache managers.

They carry no measuring code. This is the provider ``python``.
"""
