"""Which optional dependency (extra) of the package installs which module."""

# module: (its usual name, the extra that installs it)
EXTRAS = {
    "torch": ("PyTorch", "models"),
    "safetensors": ("safetensors", "models"),
    "matplotlib": ("Matplotlib", "report"),
    "distributed": ("Dask", "cluster"),
    "tensorboard": ("TensorBoard", "tensorboard"),
    "pyarrow": ("PyArrow", "parquet"),
    "jinja2": ("Jinja", "web"),
    "starlette": ("Starlette", "web"),
    "uvicorn": ("Uvicorn", "web"),
}


def what_to_install(error: ModuleNotFoundError) -> str | None:
    """The pip command that installs a missing module, in one line; None if no extra has it."""
    name, extra = EXTRAS.get((error.name or "").partition(".")[0], ("", ""))
    return f"this needs {name}: pip install 'arithmetext[{extra}]'" if extra else None
