"""/model: to be written."""

from starlette.routing import Route

routes: list[Route] = []
