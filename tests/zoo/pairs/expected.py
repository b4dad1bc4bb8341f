"""What `tensortap health` must say of these trainings with FAULT=1; without it they are healthy."""

PAIRS = {
    "batch_of_one": ("norm-of-one", "*"),
    "blocked_by_no_grad": ("gradient-missing", "encoder*"),
    "clip_before_unscale": ("clipping", "*"),
    "clip_too_low": ("clipping", "*"),
    "dropout_too_high": ("mostly-zero", "*2*"),
    "evaluation_with_graphs": ("evaluation-graphs", "*"),
    "gates_over_batch": ("softmax-dimension", "0*"),
    "growing_by_a_factor": ("growth", "*"),
    "inverted_mask": ("mostly-zero", "keep*"),
    "lora_both_zero": ("zero-factors", "*lora*"),
    "norm_of_one": ("norm-of-one", "norm*"),
    "not_zeroed": ("not-zeroed", "*"),
    "one_class": ("loss-near-zero", "loss/*"),
    "one_sample_repeated": ("same-sample", "*"),
    "padding_counted": ("padding", "*"),
    "rate_in_wrong_unit": ("learning-rate", "learning_rate"),
    "schedule_per_step": ("learning-rate", "learning_rate"),
    "softmax_over_queries": ("softmax-dimension", "attention*"),
    "weight_decay": ("weight-decay", "*"),
}
