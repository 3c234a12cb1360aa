"""The bench of large clusters.

| file         | holds                                                                                        |
|--------------|----------------------------------------------------------------------------------------------|
| `lived.py`   | the objects of a cluster that has lived                                                      |
| `etcd.py`    | puts them into etcd                                                                          |
| `churn.py`   | pods that come and go, claims, growths, snapshots; kubelets, played; what all of them took   |
| `peers.py`   | the programs of each contender                                                               |
| `rounds.py`  | one contender on one cluster                                                                 |
| `turns.py`   | measures the turns of an event loop                                                          |
| `report.py`  | what was measured, as a table                                                                |
| `curves.py`  | … and as curves over the size                                                                |
"""
