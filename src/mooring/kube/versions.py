"""Which of two resource versions is the later one."""


def order(arriving: str, known: str) -> int:
    """-1, 0 or 1: the arriving version is older than, the same as, newer than the known one.

    "" is older than all. What arrives with a version that is no number counts as newer than what is known.
    """
    if arriving == known:
        return 0
    if not arriving:
        return -1
    if arriving.isdecimal() and known.isdecimal():
        left, right = int(arriving), int(known)
        return (left > right) - (left < right)
    return 1
