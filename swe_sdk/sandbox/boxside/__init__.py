"""The programs that run beneath and inside boxes: standard library only, importing nothing of the rest of the package.

``zygote`` makes boxes out of kernel namespaces, ``supervisor`` is process 1 of each of them. They run as programs of
their own (``python -I -S -B``), so nothing here may rely on site-packages or on an import after the box's root is set.
"""
