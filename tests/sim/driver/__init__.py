"""The simulation of the reference driver: the real one over a real folder, on a kernel that is played, in virtual time.

Users take volumes through their lives, several at once: made, attached, staged and published on one node or two,
written, copied twice at the same time, restored, and deleted again. The driver is killed before any change of the disk,
of mounts and of devices, and starts anew on what is left; disks fill up, and writes of the driver's state fail; devices
can't be read; others mount in a volume's folder, and damage what is on a device. Beside them somebody takes a group and
deletes it while a volume is restored from it, pods bring volumes, and one only looks.

| file         | meaning                                                                                             |
|--------------|-----------------------------------------------------------------------------------------------------|
| `plan.py`    | what a seed chooses                                                                                 |
| `kernel.py`  | mounts, loop devices, file systems that freeze, and the tools that change them                      |
| `disk.py`    | every change of the disk as a step at which the driver can die, or the disk can be full             |
| `threads.py` | the driver's threads, one at a time: a copy stops before each part, so that others come in between   |
| `users.py`   | what users ask for, and what they must find                                                         |
| `odd_users.py` | those of groups, of volumes that pods bring, and who only look                                    |
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
| unsynced          | a state takes the place of the former one before the disk has it                       |
| unrecorded        | something is mounted on a node that the state on the disk does not tell of             |
| early-ready       | a snapshot is called ready while its data is being copied                              |
| deleted-under-copy | something is removed from what is being copied                                        |
| group-lost        | a volume is published, and its target is not its group's, for what is made later too    |

`python -m tests.sim --part driver --seeds 1000`.
"""
