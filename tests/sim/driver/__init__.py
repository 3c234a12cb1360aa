"""The simulation of the reference driver: the real one over a real folder, on a kernel that is played, in virtual time.

Users take volumes through their lives, several at once: made, attached, staged and published on one node or two, written, copied twice at
the same time, restored, and deleted again. The driver is killed before any change of the disk, of mounts and of devices, and starts anew on
what is left; disks fill up; devices can't be read; others mount in a volume's folder, and damage what is on a device.

| file         | meaning                                                                                             |
|--------------|-----------------------------------------------------------------------------------------------------|
| `plan.py`    | what a seed chooses                                                                                 |
| `kernel.py`  | mounts, loop devices, file systems that freeze, and the tools that change them                      |
| `disk.py`    | every change of the disk as a step at which the driver can die, or the disk can be full             |
| `threads.py` | the driver's threads, one at a time: a copy stops before each part, so that others come in between   |
| `users.py`   | what users ask for, and what they must find                                                         |
| `run.py`     | one life                                                                                            |
| `bugs.py`    | defects that were mended, planted again                                                             |

The laws stand where what they judge is played:

| law               | broken when                                                                            |
|-------------------|----------------------------------------------------------------------------------------|
| formatted-over    | a device is formatted that has anything on it                                          |
| deleted-in-mount  | something is removed from what others have mounted in a volume's folder                |
| torn              | a copy shows two moments of a file system                                              |
| readonly-written  | NodePublishVolume has answered, and a read-only mount can be written                   |
| refused           | a call fails that has to succeed: with an unknown parameter, on a full disk, at peace   |
| lost              | a volume that was answered is gone, or what was written in it                          |
| left              | something is left when all is deleted                                                  |

`python -m tests.sim --part driver --seeds 1000`.
"""
