"""What controllers are made of: caches, queues, topics, back-off, locks, and the loop that joins them.

A controller reads caches, judges one key with a pure function, carries the judgement out and returns a `Result`. Everything else stands
here, once:

    runtime = Runtime(cluster, clock, chance, metrics)
    caches = Caches(runtime)
    volumes = caches.of(PERSISTENT_VOLUMES)

    async def reconcile(key: Key) -> Result:
        pv = volumes.store.get(key)
        ...
        return Result(Labelled(key.name), done="labelled")

    controller = Controller(runtime, "labels", reconcile, workers=4)
    controller.watch(volumes, lambda change: [change.key])
    manager = Manager(caches, controller)
    await manager.run()

`control` knows the API server's port, and no driver.
"""
