//! Successive halving: all candidates are tried a little, the best of them more, until few are left.

use dyweight_core::error::Result;

/// Sorts every group, the best first: behind those that went through all rounds stand the others, the last to fall out
/// before those that fell out early. `score` is asked round by round for the scores of those that are left in each
/// group, lower being better; a group of which it says nothing stays as it is. After a round `kept` of so many go on.
pub fn halve<T>(
    groups: &mut [Vec<T>],
    rounds: usize,
    kept: impl Fn(usize, usize) -> usize,
    mut score: impl FnMut(usize, &mut [&mut [T]]) -> Result<Vec<Vec<f64>>>,
) -> Result<()> {
    let mut left: Vec<usize> = groups.iter().map(Vec::len).collect();
    for round in 0..rounds {
        let mut parts: Vec<&mut [T]> = groups.iter_mut().zip(&left).map(|(all, left)| &mut all[..*left]).collect();
        let scores = score(round, &mut parts)?;
        for ((all, left), scores) in groups.iter_mut().zip(&mut left).zip(scores).filter(|(_, s)| !s.is_empty()) {
            let mut order: Vec<(f64, T)> = scores.into_iter().zip(all.drain(..*left)).collect();
            order.sort_by(|a, b| a.0.total_cmp(&b.0));
            all.splice(0..0, order.into_iter().map(|(_, one)| one));
            *left = kept(round, *left).min(*left);
        }
    }
    Ok(())
}

/// The same for one group whose candidates are scored one by one; in round i at most `most[i]` go on.
pub(crate) fn halve_one<T>(
    all: Vec<T>,
    most: &[usize],
    mut score: impl FnMut(usize, &mut T) -> Result<f64>,
) -> Result<Vec<T>> {
    let mut groups = [all];
    let mut each = |round, left: &mut [&mut [T]]| -> Result<Vec<f64>> {
        left[0].iter_mut().map(|one| score(round, one)).collect()
    };
    halve(&mut groups, most.len(), |round, _| most[round], |round, left| Ok(vec![each(round, left)?]))?;
    let [all] = groups;
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_fall_out_stand_behind_the_others() {
        let mut groups = vec![vec![5, 1, 4, 2, 3], vec![9]];
        let mut seen = Vec::new();
        let score = |round: usize, left: &mut [&mut [i32]]| {
            seen.push(left[0].to_vec());
            let turned = if round == 0 { 1 } else { -1 };
            Ok(vec![left[0].iter().map(|v| f64::from(turned * v)).collect(), Vec::new()])
        };
        halve(&mut groups, 2, |round, _| [3, 1][round], score).unwrap();
        assert_eq!(groups, [vec![3, 2, 1, 4, 5], vec![9]]);
        assert_eq!(seen, [vec![5, 1, 4, 2, 3], vec![1, 2, 3]]);
    }
}
