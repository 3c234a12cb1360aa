"""Which of two resource versions is the later one."""


def order(arriving: str, known: str) -> int:
    """-1, 0 or 1: the arriving version is older, the same, newer. "" is the oldest; a version that is no number counts as newer."""
    if arriving == known:
        return 0
    if not arriving:
        return -1
    if arriving.isdecimal() and known.isdecimal():
        left, right = int(arriving), int(known)
        return (left > right) - (left < right)
    return 1
