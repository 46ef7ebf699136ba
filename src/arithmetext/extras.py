"""Which extra of the package brings which third-party module."""

# module: what people call it, and the extra
BRINGS = {
    "torch": ("PyTorch", "models"),
    "safetensors": ("safetensors", "models"),
    "matplotlib": ("Matplotlib", "report"),
    "distributed": ("Dask", "cluster"),
    "tensorboard": ("TensorBoard", "tensorboard"),
    "starlette": ("Starlette", "web"),
    "uvicorn": ("Uvicorn", "web"),
}


def what_to_install(error: ModuleNotFoundError) -> str | None:
    """One line that names the extra with the missing module; None if no extra brings it."""
    name, extra = BRINGS.get((error.name or "").partition(".")[0], ("", ""))
    return f"this needs {name}: pip install 'arithmetext[{extra}]'" if extra else None
