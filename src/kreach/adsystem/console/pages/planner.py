from kreach.adsystem.console.frame import Frame


def planner_page(frame: Frame, *_: str) -> None: ...
