"""A class with an arm's name that offers nothing of what an arm offers."""


class KvCacheConnectorSchedulerOutputManager:
    def __init__(self, **_options: object) -> None:
        pass
