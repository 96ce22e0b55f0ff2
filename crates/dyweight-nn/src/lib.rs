//! Frozen-network CPU engine: NHWC f32 tensors, a dozen operations, each with forward and input gradient.
