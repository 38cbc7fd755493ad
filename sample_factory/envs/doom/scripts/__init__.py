"""Small tools around the Doom environments."""
