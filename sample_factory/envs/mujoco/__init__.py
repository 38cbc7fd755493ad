"""MuJoCo's locomotion and manipulation tasks, as gymnasium ships them."""
