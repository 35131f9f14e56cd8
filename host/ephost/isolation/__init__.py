"""Plugins in processes of their own, where what kills them is an exception here. docs/isolation.md says how.

``settings`` has what a user may say; ``process`` is one worker as the host sees it, ``channel`` what the two
send each other, ``snapshot`` a model on its way there; ``proxy`` stands in the place of the plugin's
factories and EPs in the host. ``sandbox`` is the other process' program and what that is held to, ``worker``
how it listens, ``serving`` what it does.
"""
