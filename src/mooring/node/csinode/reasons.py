"""Why something is written to Node and CSINode for a driver, in words."""

from __future__ import annotations

from mooring.control.reasons import reason


@reason("everything about driver {driver} stands there")
class Entered:
    driver: str


@reason("driver {driver} is registered: it is entered")
class Enters:
    driver: str


@reason("driver {driver} has another node id or other topology keys than its entry, which is removed first")
class EntersAnew:
    driver: str


@reason("driver {driver} is not registered any more: it is taken off")
class TakesOff:
    driver: str


@reason("driver {driver} is not entered")
class NotEntered:
    driver: str


@reason("the annotation names all migrated plugins")
class MigratedNamed:
    pass


@reason("the annotation does not name all migrated plugins")
class MigratedUnnamed:
    pass


@reason("{error}")
class NoNodeId:
    driver: str

    @property
    def error(self) -> str:
        return f"the driver {self.driver} gave no node id"


@reason("{error}")
class LabelCollision:
    """The Node has a label of the driver's topology with another value."""

    node: str
    key: str
    given: str
    present: str

    @property
    def error(self) -> str:
        key = self.key
        return (
            f"detected topology value collision: driver reported {key!r}:{self.given!r} but existing label is "
            f"{key!r}:{self.present!r}; "
            f"remove the label (kubectl label node {self.node} {key}-), or mend what the driver reports"
        )


@reason("{error}")
class BadAnnotation:
    """text: what is wrong with the annotation of this name."""

    name: str
    text: str

    @property
    def error(self) -> str:
        return f"the Node's annotation {self.name} is no JSON {self.text}: remove or mend it by hand"


@reason("{error}")
class EntryLost:
    driver: str

    @property
    def error(self) -> str:
        return f"the driver {self.driver} has no entry in CSINode; it is entered again soon, as it was registered"


@reason("{error}")
class AnswersOtherwise:
    """The driver's answer is about another node than its entry."""

    driver: str
    node_id: str
    topology_keys: tuple[str, ...]
    given_id: str
    given_keys: tuple[str, ...]

    @property
    def error(self) -> str:
        return (
            f"the driver {self.driver} is registered with node id {self.node_id!r} and topology keys "
            f"{list(self.topology_keys)}, and now gives {self.given_id!r} and {list(self.given_keys)}; "
            "restart its registrar, so that it is registered anew"
        )
