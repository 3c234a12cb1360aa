"""Everything in one process.

`mooring dev` runs embedded server, driver, controllers and nodes; `Plane` assembles it. Nodes can be killed and
revived. The end has a limit for each step, and a thread ends the process even if somebody's driver blocks the rest.
What happens is printed as a story; below it `live` draws tables of calls, volumes and reasons, from a model that is
pure; `browser` serves the same as a page, with an event loop whose time can be sped up, and a proxy before each socket
of the driver. `demo` takes one volume through its life.
"""
