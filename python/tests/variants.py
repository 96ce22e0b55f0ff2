"""Schedulers that people put in place of a pipeline's own: `VARIANTS[kind][name](own)`, kind "table" or "flow".

Every class of diffusers, and every setting that changes what a network is told, shown or asked for.
"""

import diffusers


def _variant(name, **settings):
    return lambda own: getattr(diffusers, name + "Scheduler").from_config(own.config, **settings)


_ZERO = {"rescale_betas_zero_snr": True, "timestep_spacing": "trailing"}
_FLOW = {"use_flow_sigmas": True, "prediction_type": "flow_prediction"}

TABLE = {
    "DDIM": _variant("DDIM", clip_sample=False),
    "DDIM that ends at its table's first level": _variant("DDIM", clip_sample=False, set_alpha_to_one=False, steps_offset=1),
    "DDIM, clipped": _variant("DDIM", clip_sample=True),
    "DDIM, thresholded": _variant("DDIM", clip_sample=False, thresholding=True),
    "DDIM, trailing, zero SNR": _variant("DDIM", clip_sample=False, **_ZERO),
    "DDIM, cosine betas": _variant("DDIM", clip_sample=False, beta_schedule="squaredcos_cap_v2"),
    "DDIM, 100 betas": _variant("DDIM", clip_sample=False, trained_betas=[1e-3 + 1e-3 * i for i in range(100)], num_train_timesteps=100),
    "DDIM, parallel": _variant("DDIMParallel", clip_sample=False),
    "DDPM": _variant("DDPM", clip_sample=False),
    "DDPM, parallel": _variant("DDPMParallel", clip_sample=False),
    "DDPM, clipped": _variant("DDPM", clip_sample=True),
    "DDPM, sigmoid betas": _variant("DDPM", clip_sample=False, beta_schedule="sigmoid"),
    "PNDM": _variant("PNDM"),
    "PNDM without Runge-Kutta": _variant("PNDM", skip_prk_steps=True),
    "LMS": _variant("LMSDiscrete"),
    "LMS, Karras": _variant("LMSDiscrete", use_karras_sigmas=True),
    "Heun": _variant("HeunDiscrete"),
    "Heun, Karras": _variant("HeunDiscrete", use_karras_sigmas=True),
    "KDPM2": _variant("KDPM2Discrete"),
    "KDPM2, ancestral": _variant("KDPM2AncestralDiscrete"),
    "Euler, linspace": _variant("EulerDiscrete", timestep_spacing="linspace"),
    "Euler, leading": _variant("EulerDiscrete", timestep_spacing="leading"),
    "Euler, trailing": _variant("EulerDiscrete", timestep_spacing="trailing"),
    "Euler, Karras": _variant("EulerDiscrete", use_karras_sigmas=True),
    "Euler, exponential": _variant("EulerDiscrete", use_exponential_sigmas=True),
    "Euler, beta": _variant("EulerDiscrete", use_beta_sigmas=True),
    "Euler, log-linear": _variant("EulerDiscrete", interpolation_type="log_linear"),
    "Euler to the table's last level": _variant("EulerDiscrete", final_sigmas_type="sigma_min"),
    "Euler, v": _variant("EulerDiscrete", prediction_type="v_prediction"),
    "Euler, data": _variant("EulerDiscrete", prediction_type="sample"),
    "Euler, v, zero SNR": _variant("EulerDiscrete", prediction_type="v_prediction", **_ZERO),
    "Euler, continuous": _variant("EulerDiscrete", timestep_type="continuous"),
    "Euler, continuous v": _variant(
        "EulerDiscrete", timestep_type="continuous", prediction_type="v_prediction", use_karras_sigmas=True, sigma_min=0.002,
        sigma_max=80.0,
    ),
    "Euler, ancestral": _variant("EulerAncestralDiscrete"),
    "DPM-Solver++": _variant("DPMSolverMultistep"),
    "DPM-Solver++, Karras": _variant("DPMSolverMultistep", use_karras_sigmas=True),
    "DPM-Solver++, lambdas": _variant("DPMSolverMultistep", use_lu_lambdas=True),
    "DPM-Solver++, third order": _variant("DPMSolverMultistep", solver_order=3),
    "DPM-Solver++, Euler at the end": _variant("DPMSolverMultistep", euler_at_final=True),
    "DPM-Solver++ to the table's last level": _variant("DPMSolverMultistep", final_sigmas_type="sigma_min"),
    "DPM-Solver++, v": _variant("DPMSolverMultistep", prediction_type="v_prediction"),
    "DPM-Solver++, thresholded": _variant("DPMSolverMultistep", thresholding=True),
    "DPM-Solver": _variant("DPMSolverMultistep", algorithm_type="dpmsolver", final_sigmas_type="sigma_min"),
    "SDE-DPM-Solver++": _variant("DPMSolverMultistep", algorithm_type="sde-dpmsolver++"),
    "DPM-Solver++, single steps": _variant("DPMSolverSinglestep"),
    "DPM-Solver SDE": _variant("DPMSolverSDE"),
    "DEIS": _variant("DEISMultistep"),
    "UniPC": _variant("UniPCMultistep"),
    "UniPC, bh1, noise": _variant("UniPCMultistep", solver_type="bh1", predict_x0=False),
    "UniPC, Karras": _variant("UniPCMultistep", use_karras_sigmas=True),
    "SA-Solver": _variant("SASolver"),
    "UnCLIP": _variant("UnCLIP"),
    "CogVideoX DDIM": _variant("CogVideoXDDIM", clip_sample=False, snr_shift_scale=1.0),
    "EDM Euler": _variant("EDMEuler"),
    "EDM DPM-Solver++, v": _variant("EDMDPMSolverMultistep", prediction_type="v_prediction", sigma_data=1.0),
    "iPNDM": _variant("IPNDM"),
    "cosine DPM-Solver": _variant("CosineDPMSolverMultistep", prediction_type="v_prediction"),
    "flow by UniPC": _variant("UniPCMultistep", flow_shift=3.0, **_FLOW),
    "LCM": _variant("LCM"),
    "TCD": _variant("TCD"),
    "inverse DDIM": _variant("DDIMInverse"),
    "VE-SDE": _variant("ScoreSdeVe"),
    "RePaint": _variant("RePaint"),
}  # fmt: skip

FLOW = {
    "Euler, shift 1": _variant("FlowMatchEulerDiscrete", shift=1.0, use_dynamic_shifting=False),
    "Euler, shift 7": _variant("FlowMatchEulerDiscrete", shift=7.0, use_dynamic_shifting=False),
    "Euler, dynamic shift": _variant("FlowMatchEulerDiscrete", use_dynamic_shifting=True),
    "Euler, dynamic linear shift": _variant("FlowMatchEulerDiscrete", use_dynamic_shifting=True, time_shift_type="linear"),
    "Euler, inverted": _variant("FlowMatchEulerDiscrete", invert_sigmas=True),
    "Euler, stretched to its end": _variant("FlowMatchEulerDiscrete", use_dynamic_shifting=True, shift_terminal=0.02),
    "Euler with noise": _variant("FlowMatchEulerDiscrete", stochastic_sampling=True),
    "Euler, Karras": _variant("FlowMatchEulerDiscrete", use_karras_sigmas=True),
    "Euler, exponential": _variant("FlowMatchEulerDiscrete", use_exponential_sigmas=True),
    "Euler, beta": _variant("FlowMatchEulerDiscrete", use_beta_sigmas=True),
    "Euler, 500 timesteps": _variant("FlowMatchEulerDiscrete", num_train_timesteps=500),
    "Heun": _variant("FlowMatchHeunDiscrete", shift=3.0),
    "LTX, ancestral": _variant("LTXEulerAncestralRF"),
    "MiniMax": _variant("MiniMaxH3", shift=3.0),
    "UniPC": _variant("UniPCMultistep", flow_shift=3.0, **_FLOW),
    "UniPC, dynamic shift": _variant("UniPCMultistep", use_dynamic_shifting=True, **_FLOW),
    "UniPC, bh1": _variant("UniPCMultistep", flow_shift=1.0, solver_type="bh1", **_FLOW),
    "UniPC, noise": _variant("UniPCMultistep", use_flow_sigmas=True, prediction_type="epsilon", flow_shift=3.0),
    "UniPC, data": _variant("UniPCMultistep", use_flow_sigmas=True, prediction_type="sample", flow_shift=3.0),
    "UniPC, v": _variant("UniPCMultistep", use_flow_sigmas=True, prediction_type="v_prediction"),
    "DPM-Solver++": _variant("DPMSolverMultistep", flow_shift=3.0, **_FLOW),
    "SDE-DPM-Solver++": _variant("DPMSolverMultistep", flow_shift=3.0, algorithm_type="sde-dpmsolver++", **_FLOW),
    "DPM-Solver++, single steps": _variant("DPMSolverSinglestep", flow_shift=3.0, **_FLOW),
    "DEIS": _variant("DEISMultistep", flow_shift=3.0, **_FLOW),
    "SA-Solver": _variant("SASolver", flow_shift=3.0, **_FLOW),
    "LCM": _variant("FlowMatchLCM"),
    "flow map": _variant("FlowMapEulerDiscrete"),
    "table in place of a flow": _variant("DDIM", clip_sample=False),
}  # fmt: skip

VARIANTS = {"table": TABLE, "flow": FLOW}
