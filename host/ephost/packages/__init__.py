"""Model packages: folders with several forms of a model, of which a session gets the one that fits.

``json_text`` < ``paths`` < ``assets`` < ``manifest`` < ``authoring``, ``variants`` < ``contexts``.
"""
