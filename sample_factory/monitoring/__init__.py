"""Console, log file, TensorBoard, metrics.jsonl."""
