"""The reference driver: volumes as folders, files and block devices of one machine, on the SDK.

Its rules are pure functions over a `State`. A change is made at once, and answered when the disk has it. One part alone
brings data to paths: by mounts, or by links where the system refuses to mount. Copies run in threads, and outlive
callers that give up. Faults and observers wrap any driver's methods.
"""
