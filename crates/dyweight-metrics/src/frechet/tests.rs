use super::*;
use crate::Origin;
use dyweight_core::noise::Stream;

fn given(mu: Vec<f64>, sigma: Vec<f64>) -> Statistics {
    let sigma = Symmetric::new("sigma", mu.len(), sigma, 1e-12).unwrap();
    Statistics { mu, sigma, source: Origin::default() }
}

fn distance(a: &Statistics, b: &Statistics) -> f64 {
    Reference::new(b.clone()).unwrap().distance(a).unwrap()
}

/// Rows A·z + shift with normal z and a fixed A.
fn correlated(seed: u64, count: usize, dims: usize, (spread, shift): (f64, f64)) -> Features {
    let mut stream = Stream::labelled(seed, "frechet");
    let row = |z: Vec<f64>| -> Vec<f32> {
        (0..dims).map(|j| (shift + z[j] * (1.0 + spread * j as f64) + 0.5 * z[(j + 1) % dims]) as f32).collect()
    };
    Features::from_rows(dims, (0..count).flat_map(|_| row(stream.normals(dims))).collect()).unwrap()
}

#[test]
fn gaussians_with_a_known_distance() {
    // Commuting: ‖Δμ‖² + Σ(√λ − √λ')².
    let a = given(vec![1.0, 2.0, 0.0], vec![4.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.25]);
    let b = given(vec![0.0, 2.0, 2.0], vec![1.0, 0.0, 0.0, 0.0, 9.0, 0.0, 0.0, 0.0, 0.25]);
    assert!((distance(&a, &b) - (5.0 + 1.0 + 4.0)).abs() < 1e-9);
    // Not commuting, 2×2: tr √M = √(tr M + 2√det M) for M = ΣΣᵣ.
    let (s, r) = ([2.0, 0.6, 0.6, 1.0], [1.0, -0.5, -0.5, 3.0]);
    let (a, b) = (given(vec![0.0; 2], s.to_vec()), given(vec![0.0; 2], r.to_vec()));
    let trace = s[0] * r[0] + s[1] * r[2] + s[2] * r[1] + s[3] * r[3];
    let determinant = (s[0] * s[3] - s[1] * s[2]) * (r[0] * r[3] - r[1] * r[2]);
    let expected = 3.0 + 4.0 - 2.0 * f64::sqrt(trace + 2.0 * determinant.sqrt());
    assert!((distance(&a, &b) - expected).abs() < 1e-9);
    assert!((distance(&b, &a) - expected).abs() < 1e-9);
    // One without spread in a direction: only what is left counts.
    let flat = given(vec![0.0; 2], vec![4.0, 0.0, 0.0, 0.0]);
    let round = given(vec![0.0; 2], vec![1.0, 0.0, 0.0, 1.0]);
    assert!((distance(&flat, &round) - 2.0).abs() < 1e-9 && (distance(&round, &flat) - 2.0).abs() < 1e-9);
}

#[test]
fn nothing_is_no_distance_from_itself_singular_or_not() {
    for (count, dims) in [(500, 40), (30, 40), (2, 5)] {
        let features = correlated(1, count, dims, (3.0, 1.0));
        let own = Statistics::of(&features, Origin::default()).unwrap();
        let scale = own.sigma.trace();
        let found = Reference::new(own).unwrap().estimate(&features).unwrap();
        assert!((0.0..1e-10 * scale).contains(&found.value), "{count}: {found} of {scale}");
        assert!(found.value < 1e-6 && found.error < 1e-3 * scale, "{count}: {found:?}");
    }
}

#[derive(serde::Deserialize)]
struct Golden {
    reference_rows: usize,
    cases: Vec<Case>,
}

#[derive(serde::Deserialize)]
struct Case {
    rows: usize,
    dims: usize,
    slope: f32,
    distance: f64,
}

/// The formula of `tools/frechet_golden.py`.
fn by_formula(salt: u32, rows: usize, dims: usize, slope: f32) -> Features {
    let mix = |z: u32| {
        let z = (z ^ (z >> 16)).wrapping_mul(0x85EB_CA6B);
        let z = (z ^ (z >> 13)).wrapping_mul(0xC2B2_AE35);
        z ^ (z >> 16)
    };
    let offset = salt.wrapping_mul(0x9E37_79B1);
    let u = |i: usize, j: usize| (mix(((i * dims + j) as u32).wrapping_add(offset)) >> 8) as f32 / (1u32 << 24) as f32;
    let entry = |i: usize, j: usize| (u(i, j) + 0.5 * u(i, (j + 1) % dims)) * (1.0 + slope * j as f32);
    let rows = (0..rows).flat_map(|i| (0..dims).map(move |j| (i, j))).map(|(i, j)| entry(i, j)).collect();
    Features::from_rows(dims, rows).unwrap()
}

#[test]
fn pytorch_fid_finds_the_same() {
    let golden: Golden = serde_json::from_str(include_str!("../../tests/data/frechet_golden.json")).unwrap();
    for case in golden.cases {
        let reference = by_formula(2, golden.reference_rows, case.dims, case.slope);
        let reference = Reference::new(Statistics::of(&reference, Origin::default()).unwrap()).unwrap();
        let found = reference.estimate(&by_formula(1, case.rows, case.dims, 0.0)).unwrap();
        let relative = (found.value / case.distance - 1.0).abs();
        assert!(relative < 1e-6, "{} rows: {found:?} against {}: {relative:e}", case.rows, case.distance);
    }
}

#[test]
fn the_error_is_that_of_the_bootstrap() {
    for spread in [0.0, 0.3] {
        let (count, dims) = (600, 6);
        let reference = Statistics::of(&correlated(9, 5000, dims, (0.1, 0.0)), Origin::default()).unwrap();
        let reference = Reference::new(reference).unwrap();
        let features = correlated(1, count, dims, (spread, 0.4));
        let found = reference.estimate(&features).unwrap();
        let mut stream = Stream::labelled(3, "bootstrap");
        let mut redraw = || {
            let rows = (0..count).flat_map(|_| {
                let at = (stream.uniform() * count as f64) as usize * dims;
                features.rows()[at..at + dims].to_vec()
            });
            let drawn = Features::from_rows(dims, rows.collect()).unwrap();
            reference.distance(&Statistics::of(&drawn, Origin::default()).unwrap()).unwrap()
        };
        let values: Vec<f64> = (0..400).map(|_| redraw()).collect();
        let bootstrap = Estimate::mean(&values).error * (values.len() as f64).sqrt();
        assert!((found.error / bootstrap - 1.0).abs() < 0.12, "{} against {bootstrap}", found.error);
    }
}

#[test]
fn samples_of_the_same_noise_err_together() {
    let (count, dims) = (600, 6);
    let (own, other) = (correlated(1, count, dims, (0.3, 0.4)), correlated(1, count, dims, (0.1, 0.0)));
    let found = Paired::new(other.clone()).unwrap().estimate(&own).unwrap();
    let statistics = |features: &Features| Statistics::of(features, Origin::default()).unwrap();
    let apart = Reference::new(statistics(&other)).unwrap().estimate(&own).unwrap();
    assert_eq!(found.value, apart.value);
    let mut stream = Stream::labelled(3, "bootstrap");
    let mut redraw = || {
        let chosen: Vec<usize> = (0..count).map(|_| (stream.uniform() * count as f64) as usize * dims).collect();
        let drawn = |from: &Features| {
            let rows = chosen.iter().flat_map(|at| from.rows()[*at..at + dims].to_vec());
            statistics(&Features::from_rows(dims, rows.collect()).unwrap())
        };
        distance(&drawn(&own), &drawn(&other))
    };
    let values: Vec<f64> = (0..400).map(|_| redraw()).collect();
    let bootstrap = Estimate::mean(&values).error * (values.len() as f64).sqrt();
    assert!((found.error / bootstrap - 1.0).abs() < 0.12, "{} against {bootstrap}", found.error);
    // As if they had nothing in common the error would be another.
    assert!((apart.error / bootstrap - 1.0).abs() > 0.3, "{} against {bootstrap}", apart.error);
    let same = Paired::new(own.clone()).unwrap().estimate(&own).unwrap();
    assert!(same.value < 1e-9 && same.error < 1e-9, "{same:?}");
    assert!(Paired::new(other).unwrap().estimate(&correlated(1, 10, dims, (0.3, 0.4))).is_err());
}

#[test]
fn threads_change_no_bit() {
    let reference = Statistics::of(&correlated(9, 500, 150, (0.1, 0.0)), Origin::default()).unwrap();
    let features = correlated(1, 400, 150, (0.2, 0.1));
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| Reference::new(reference.clone()).unwrap().estimate(&features).unwrap())
    };
    assert_eq!(on(1), on(2));
}

#[test]
fn what_is_no_covariance_or_of_other_features_is_refused() {
    let bad = given(vec![0.0; 2], vec![1.0, 2.0, 2.0, 1.0]);
    assert!(Reference::new(bad).err().unwrap().to_string().contains("eigenvalue -1e0"));
    let round = given(vec![0.0; 2], vec![1.0, 0.0, 0.0, 1.0]);
    let other = given(vec![0.0], vec![1.0]);
    assert!(Reference::new(round.clone()).unwrap().distance(&other).is_err());
    let named = |name: &str| Statistics {
        source: Origin { features: Some(name.into()), ..Origin::default() },
        ..round.clone()
    };
    assert!(Reference::new(named("a")).unwrap().distance(&named("b")).is_err());
    assert_eq!(Reference::new(named("a")).unwrap().distance(&round).unwrap(), 0.0);
}

#[test]
fn files_come_back_bit_by_bit() {
    let directory = std::env::temp_dir().join(format!("dyweight-statistics-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("a.npz");
    let source = Origin { features: Some("fashion-features".into()), ..Origin::default() };
    let statistics = Statistics::of(&correlated(1, 50, 7, (0.2, 0.1)), source).unwrap();
    statistics.write(&path).unwrap();
    let back = Statistics::read(&path).unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    assert_eq!(back, statistics);
    assert_eq!(back.source.count, Some(50));
    assert_eq!(back.fingerprint(), statistics.fingerprint());
}

#[test]
fn the_reference_built_in_fits_the_features_built_in() {
    use dyweight_core::features::FeatureMap;
    use dyweight_models::features::FashionFeatures;
    let (reference, map) = (fashion().unwrap(), FashionFeatures::embedded().unwrap());
    assert_eq!(reference.mu.len(), map.dims());
    assert_eq!(reference.source.count, Some(60_000));
    assert_eq!(reference.source.features.as_deref(), Some(map.name()));
    assert_eq!(reference.source.weights.as_deref(), Some(map.sha256()));
    Reference::new(reference).unwrap();
}
