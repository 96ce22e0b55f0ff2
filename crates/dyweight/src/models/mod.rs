//! Models, each as a [`crate::denoiser::Denoiser`].

pub mod mixture;
