"""The paper: its trained models, its studies, and the report on its claims."""
