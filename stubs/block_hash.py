"""The hash of a full block, as all providers compute it, so that equal tokens hash the same."""

from collections.abc import Iterable

_OFFSET_BASIS = 0xCBF29CE484222325
_PRIME = 0x100000001B3
_MASK_32, _MASK_64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF


def hash_block(parent: int, tokens: Iterable[int]) -> int:
    """Return a 64-bit hash of a block's tokens and of all before them.

    FNV-1a over 64-bit words instead of bytes, with a shift that lets high bits reach low ones.
    ``stubs/native/src/kv_cache_v1.cpp`` computes the same.

    Args:
        parent: hash of the block before; 0 for the first block.
        tokens: the block's tokens, int32.
    """
    value = ((_OFFSET_BASIS ^ parent) * _PRIME) & _MASK_64
    value ^= value >> 32
    for token in tokens:
        value = ((value ^ (token & _MASK_32)) * _PRIME) & _MASK_64
        value ^= value >> 32
    return value
