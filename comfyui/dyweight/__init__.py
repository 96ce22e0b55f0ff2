"""DyWeight for ComfyUI: learned few-step solvers. Put this folder into custom_nodes. Documentation: docs/comfyui.md."""

from .nodes import NODE_CLASS_MAPPINGS, NODE_DISPLAY_NAME_MAPPINGS

__all__ = ["NODE_CLASS_MAPPINGS", "NODE_DISPLAY_NAME_MAPPINGS"]
