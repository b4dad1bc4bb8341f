"""What `tensortap health` must say of the trainings in this folder.

Most were written, and set aside or not, before there was a rule.  ASIDE: looked at only once the
rules were final.  LATER: what users met, written with the repair of a rule.
"""

# Program: any of these findings (rule, and a glob of the site or module) is the right one.
FAULTS = {
    "learning_rate_too_high": [("divergence", "loss/*"), ("nonfinite", "*")],
    "learning_rate_zero": [("learning-rate", "*")],
    "missing_from_optimizer": [("not-optimized", "head*")],
    "detached": [("gradient-missing", "trunk*")],
    "dead_relu": [("dead-units", "*second*"), ("dead-units", "*third*")],
    "saturated_tanh": [("saturation", "*1*"), ("saturation", "*3*")],
    "vanishing": [("gradient-vanishing", "0*")],
    "exploding": [("gradient-exploding", "*"), ("growth", "*inner*")],
    "log_of_zero": [("nonfinite", "loss/*")],
    "half_overflow": [("half-overflow", "*2*"), ("nonfinite", "*2*")],
    "half_underflow": [("half-underflow", "*")],
    "scaler_skips": [("scaler-skipping", "*"), ("nonfinite", "*0.bias*")],
    "same_batch": [("repeated-batch", "*")],
    "not_normalised": [("input-scale", "*")],
    "dropout_in_evaluation": [("evaluation-in-train-mode", "*")],
    "training_in_eval_mode": [("training-in-eval-mode", "*")],
    "one_bad_batch": [("loss-spike", "loss/*")],
    "zeroed_before_step": [("weights-unchanged", "*"), ("gradient-missing", "*")],
    "stale_optimizer": [("not-optimized", "*")],
    "growing": [("growth", "*")],
    "updates_too_large": [("update-ratio", "*2*")],
    "frozen_by_mistake": [("weights-unchanged", "backbone*")],
    "rounded_updates": [("weights-unchanged", "1.weight")],
    "exploded_and_fell": [("divergence", "loss/*")],
    "learning_rate_too_small": [("learning-rate", "learning_rate")],
    "never_called": [("gradient-missing", "second.*")],
    "stuck_in_a_corner": [("gradient-missing", "*"), ("loss-stuck", "loss/*")],
}

ASIDE = {
    "faulty_learning_rate_zero",
    "faulty_detached",
    "faulty_saturated_tanh",
    "faulty_exploding",
    "faulty_half_overflow",
    "faulty_scaler_skips",
    "faulty_not_normalised",
    "faulty_training_in_eval_mode",
    "faulty_zeroed_before_step",
    "faulty_updates_too_large",
    "faulty_stuck_in_a_corner",
    "healthy_autocast",
    "healthy_cnn",
    "healthy_diffusion",
    "healthy_frozen_trunk",
    "healthy_lion",
    "healthy_lstm",
    "healthy_muon",
    "healthy_regression",
    "healthy_scaler",
    "healthy_sparse",
    "healthy_transformer",
    "healthy_vae",
}

LATER = {
    "faulty_rounded_updates",
    "faulty_exploded_and_fell",
    "faulty_learning_rate_too_small",
    "faulty_never_called",
    "healthy_siamese",
    "healthy_reward_model",
    "healthy_zero_init_norms",
    "healthy_decayed_norms",
    "healthy_massive_channel",
}
